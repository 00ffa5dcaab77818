import java.io.ByteArrayInputStream;
import java.nio.file.*;
import java.security.cert.*;
import java.util.*;

/** Prints, for each line (a certificate in DER, as base64), that line, a tab, and the subject as Kafka gets it. */
public class JavaSubjects {
    public static void main(String[] args) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            byte[] der = Base64.getDecoder().decode(line);
            X509Certificate found = (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
            String name = found.getSubjectX500Principal().getName();
            System.out.println(line + "\t" + Base64.getEncoder().encodeToString(name.getBytes("UTF-8")));
        }
    }
}
