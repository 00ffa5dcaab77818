// Assignments by Kafka's own assignors: one JSON object per line in, one out.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.*;

public class JavaAssignors {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = json.readTree(line);
            var assigned = assignor(given.get("assignor").asText())
                .assign(cluster(given.get("topics")), new GroupSubscription(members(given.get("members"))))
                .groupAssignment();
            Map<String, Map<String, List<Integer>>> result = new TreeMap<>();
            assigned.forEach((member, assignment) -> {
                Map<String, List<Integer>> topics = result.computeIfAbsent(member, m -> new TreeMap<>());
                for (TopicPartition tp : assignment.partitions())
                    topics.computeIfAbsent(tp.topic(), t -> new ArrayList<>()).add(tp.partition());
            });
            System.out.println(json.writeValueAsString(result));
        }
    }

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            JsonNode racks = topic.getValue().get("racks");
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++) {
                List<Node> replicas = new ArrayList<>();
                if (racks.has(p))
                    for (JsonNode rack : racks.get(p))
                        replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "h", 1, r)));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, Node.noNode(), all, all));
            }
        });
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    static Map<String, Subscription> members(JsonNode members) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.fields().forEachRemaining(member -> {
            JsonNode given = member.getValue();
            List<String> topics = new ArrayList<>();
            given.get("topics").forEach(topic -> topics.add(topic.asText()));
            List<TopicPartition> owned = new ArrayList<>();
            given.get("owned").fields().forEachRemaining(topic ->
                topic.getValue().forEach(p -> owned.add(new TopicPartition(topic.getKey(), p.asInt()))));
            Subscription subscription = new Subscription(
                topics, bytes(given.get("user_data")), owned, given.get("generation").asInt(), text(given.get("rack")));
            subscription.setGroupInstanceId(text(given.get("instance")));
            subscriptions.put(member.getKey(), subscription);
        });
        return subscriptions;
    }

    static Optional<String> text(JsonNode node) {
        return node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }

    static ByteBuffer bytes(JsonNode node) {
        return node.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(node.asText()));
    }
}
