// Group members of the Java client, as many as wanted in one JVM, a thread for each. Each line of input is told to a
// member, {do: "join", "commit alone", "produce", "pause", "resume", "close" or "crash", member, ...}; each line of output
// is what a member tells, {at, member, kind, ...}. `at` is the machine's monotonic clock in seconds, as in the Python members.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Member implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;
    private static final Duration POLL = Duration.ofMillis(50);
    private static final int KILLED = 137;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");

    private static final Set<String> OF_BROKER = Set.of("session_ms", "heartbeat_ms");

    private final String bootstrapServers;
    private final JsonNode told;
    private final String name;
    private final Semaphore mayGoOn = new Semaphore(0);
    private volatile boolean pausing;
    private volatile boolean closing;
    private boolean owesCommit;

    private Member(String bootstrapServers, JsonNode told) {
        this.bootstrapServers = bootstrapServers;
        this.told = told;
        this.name = told.get("member").asText();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode told = JSON.readTree(line);
            String name = told.get("member").asText();
            Member member = members.computeIfAbsent(name, unknown -> new Member(arguments[0], told));
            switch (told.get("do").asText()) {
                case "join" -> new Thread(member::live, name).start();
                case "commit alone" -> new Thread(member::commitAlone, name).start();
                case "produce" -> new Thread(member::produce, name).start();
                case "pause" -> member.pauseWithNextRecords();
                case "resume" -> member.mayGoOn.release();
                case "close" -> member.closing = true;
                case "crash" -> Runtime.getRuntime().halt(KILLED);
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0); // whoever is still a member is so no more
    }

    private void pauseWithNextRecords() {
        pausing = true;
        say("pausing", Map.of());
    }

    private void live() {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings())) {
            if (told.get("pattern").isNull()) {
                consumer.subscribe(texts(told.get("topics")), this);
            } else if (speaksConsumer()) {
                consumer.subscribe(new SubscriptionPattern(told.get("pattern").asText() + ".*"), this);
            } else {
                consumer.subscribe(Pattern.compile(told.get("pattern").asText() + ".*"), this);
            }
            while (!closing) {
                consume(consumer);
            }
            say("stopped", Map.of());
        } catch (Exception error) {
            say("error", Map.of("error", error.toString()));
            return;
        }
        say("closed", Map.of());
    }

    private void consume(KafkaConsumer<byte[], byte[]> consumer) throws InterruptedException {
        List<List<Object>> rows = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
            rows.add(List.of(record.topic(), record.partition(), record.offset()));
        }
        if (rows.isEmpty()) {
            if (owesCommit) {
                commit(consumer::commitSync);
            }
            return;
        }
        say("records", Map.of("rows", rows));
        if (pausing) {
            pausing = false;
            say("paused", Map.of());
            mayGoOn.acquire();
        }
        if (!commitsItself()) {
            commit(consumer::commitSync);
        }
    }

    private void commit(Runnable commit) {
        try {
            commit.run();
            owesCommit = false;
        } catch (KafkaException error) {
            // As its documentation says: to be done again behind the next poll.
            owesCommit = error instanceof RebalanceInProgressException;
            say("refused", Map.of("error", error.getClass().getSimpleName()));
            return;
        }
        say("committed", Map.of());
    }

    // By a consumer that is no member of the group.
    private void commitAlone() {
        JsonNode place = told.get("place");
        TopicPartition partition = new TopicPartition(place.get(0).asText(), place.get(1).asInt());
        OffsetAndMetadata offset = new OffsetAndMetadata(told.get("offset").asLong());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings())) {
            consumer.assign(List.of(partition));
            commit(() -> consumer.commitSync(Map.of(partition, offset)));
        }
        say("closed", Map.of());
    }

    private void produce() {
        Properties settings = secured();
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (JsonNode place : told.get("places")) {
                for (int number = 0; number < told.get("count").asInt(); number++) {
                    byte[] value = String.valueOf(number).getBytes();
                    sent.add(producer.send(new ProducerRecord<>(
                        place.get(0).asText(), place.get(1).asInt(), null, value)));
                }
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        } catch (Exception error) {
            say("error", Map.of("error", error.toString()));
            return;
        }
        say("closed", Map.of());
    }

    // Where to connect, and with which credentials.
    private Properties secured() {
        Properties settings = new Properties();
        JsonNode security = told.get("security");
        if (security.isNull()) {
            settings.put("bootstrap.servers", bootstrapServers);
            return settings;
        }
        settings.put("bootstrap.servers", security.get("bootstrap_servers").asText());
        settings.put("security.protocol", security.get("protocol").asText());
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", security.get("ca_file").asText());
        if (!security.get("certificate").isNull()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", security.get("certificate").asText());
        }
        if (!security.get("mechanism").isNull()) {
            settings.put("sasl.mechanism", security.get("mechanism").asText());
            settings.put("sasl.jaas.config", login(security));
        }
        return settings;
    }

    private static String login(JsonNode security) {
        String user = security.get("user").asText();
        String password = security.get("password").asText();
        String credentials = " required username=\"" + user + "\" password=\"" + password + "\";";
        return "org.apache.kafka.common.security." + switch (security.get("mechanism").asText()) {
            case "PLAIN" -> "plain.PlainLoginModule" + credentials;
            case "OAUTHBEARER" ->
                "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"" + user + "\";";
            default -> "scram.ScramLoginModule" + credentials;
        };
    }

    private Properties settings() {
        Properties settings = secured();
        settings.put("client.id", "java-" + name.substring(name.lastIndexOf('/') + 1).replace(' ', '-'));
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", String.valueOf(commitsItself()));
        if (speaksConsumer()) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", assignors());
        }
        settings.put("reconnect.backoff.max.ms", "200");
        Map<String, String> given = Map.of(
            "group", "group.id",
            "instance_id", "group.instance.id",
            "session_ms", "session.timeout.ms",
            "heartbeat_ms", "heartbeat.interval.ms",
            "max_poll_ms", "max.poll.interval.ms",
            "metadata_age_ms", "metadata.max.age.ms",
            "fetch_wait_ms", "fetch.max.wait.ms",
            "commit_ms", "auto.commit.interval.ms");
        given.forEach((key, setting) -> {
            boolean isOfBroker = speaksConsumer() && OF_BROKER.contains(key);
            if (!told.get(key).isNull() && !isOfBroker) {
                settings.put(setting, told.get(key).asText());
            }
        });
        return settings;
    }

    private String assignors() {
        return Arrays.stream(told.get("assignor").asText().split(","))
            .map(assignor -> "org.apache.kafka.clients.consumer." + ASSIGNORS.get(assignor))
            .collect(Collectors.joining(","));
    }

    // The broker assigns, and sets the times.
    private boolean speaksConsumer() {
        return told.get("assignor").asText().equals("consumer");
    }

    private boolean commitsItself() {
        return told.get("commit").asText().equals("auto");
    }

    private static List<String> texts(JsonNode array) {
        return StreamSupport.stream(array.spliterator(), false).map(JsonNode::asText).toList();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        say("assigned", placesOf(places));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        say("revoked", placesOf(places));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        say("lost", placesOf(places));
    }

    private static Map<String, Object> placesOf(Collection<TopicPartition> places) {
        return Map.of("places", places.stream().map(place -> List.of(place.topic(), place.partition())).toList());
    }

    private void say(String kind, Map<String, Object> more) {
        synchronized (OUT) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("at", System.nanoTime() / 1e9);
            line.put("member", name);
            line.put("kind", kind);
            line.putAll(more);
            try {
                OUT.println(JSON.writeValueAsString(line));
            } catch (Exception impossible) {
                throw new IllegalStateException(impossible);
            }
            OUT.flush();
        }
    }
}
