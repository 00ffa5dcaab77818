// Transactional producers of Java, and readers of partitions, as asked on stdin: a line of words for each request,
// and a line for each answer, `ok` with words or `error` with a text.
//
//   open BOOTSTRAP ID TIMEOUT_MS       a producer that has claimed its id; the answer is its number
//   begin N, commit N, abort N, close N
//   send N TOPIC PARTITION VALUE       answered when the broker has it
//   read BOOTSTRAP TOPIC PARTITION ISOLATION_LEVEL   all values up to the end that this level has

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transact {
    static final int PATIENCE_S = 60;
    static final List<KafkaProducer<String, String>> OPENED = new ArrayList<>();

    public static void main(String[] ignored) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = System.out;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = ("ok " + serve(words)).trim();
            } catch (Exception error) {
                answer = "error " + error.toString().replace('\n', ' ');
            }
            answers.println(answer);
            answers.flush();
        }
    }

    static String serve(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return open(words[1], words[2], words[3]);
            case "read":
                return read(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), words[4]);
        }
        KafkaProducer<String, String> producer = OPENED.get(Integer.parseInt(words[1]));
        switch (words[0]) {
            case "begin":
                producer.beginTransaction();
                break;
            case "send":
                producer.send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[4]))
                    .get(PATIENCE_S, TimeUnit.SECONDS);
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "close":
                producer.close(Duration.ofSeconds(1));
                break;
            default:
                throw new IllegalArgumentException("no such request: " + words[0]);
        }
        return "";
    }

    static String open(String address, String id, String timeout) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of(
            "bootstrap.servers", address,
            "transactional.id", id,
            "transaction.timeout.ms", timeout,
            "max.block.ms", PATIENCE_S * 1000,
            "linger.ms", 0,
            "reconnect.backoff.max.ms", "200",
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class));
        OPENED.add(producer);
        producer.initTransactions();
        return String.valueOf(OPENED.size() - 1);
    }

    static String read(String address, TopicPartition place, String level) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", address,
            "isolation.level", level,
            "enable.auto.commit", "false",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class))) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
        }
        return String.join(" ", values);
    }
}
