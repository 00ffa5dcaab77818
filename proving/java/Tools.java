// Runs the mains of Kafka's command line tools one after the other in one JVM, as asked on stdin.
//
// A request is a count and that many texts: the main class, what the tool shall read on its stdin, its arguments.
// An answer is the exit status, then what the tool wrote to stdout and to stderr. A text is its length in bytes
// and its UTF-8; all numbers are 32 bits, big-endian.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** What a tool writes, until it ends: some catch what is thrown there, and complain. */
    static final class Said extends ByteArrayOutputStream {
        @Override
        public synchronized void write(int one) {
            if (!ended) {
                super.write(one);
            }
        }

        @Override
        public synchronized void write(byte[] some, int from, int count) {
            if (!ended) {
                super.write(some, from, count);
            }
        }
    }

    static final Said OUT = new Said();
    static final Said ERR = new Said();
    static final List<Runnable> HOOKS = new ArrayList<>();  // some clients are closed only here
    static volatile boolean ended;
    static int status;

    public static void main(String[] ignored) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        PrintStream stderr = System.err;  // for the last words of a tool that ends the JVM, as some do on bad arguments
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stderr.print(OUT.toString() + ERR)));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            String[] request = read(requests);
            if (request == null) {
                Runtime.getRuntime().halt(0);
            }
            run(request[0], request[1], Arrays.copyOfRange(request, 2, request.length));
            answers.writeInt(status);
            write(answers, OUT);
            write(answers, ERR);
            answers.flush();
        }
    }

    static void end(int code, String message) {
        if (!ended) {
            status = code;
            ended = true;
        }
        throw new Ended();
    }

    static void run(String main, String input, String[] arguments) {
        status = 0;
        ended = false;
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                status = 1;
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            status = 1;
        }
        HOOKS.forEach(Runnable::run);
        HOOKS.clear();
        ended = true;
    }

    static String[] read(DataInputStream from) throws IOException {
        try {
            String[] texts = new String[from.readInt()];
            for (int i = 0; i < texts.length; i++) {
                texts[i] = new String(from.readNBytes(from.readInt()), StandardCharsets.UTF_8);
            }
            return texts;
        } catch (EOFException end) {
            return null;
        }
    }

    static void write(DataOutputStream to, ByteArrayOutputStream text) throws IOException {
        to.writeInt(text.size());
        text.writeTo(to);
        text.reset();
    }
}
