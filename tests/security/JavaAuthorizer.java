// Decisions by Kafka's own StandardAuthorizer: one JSON object per line in, one out.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

public class JavaAuthorizer {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = json.readTree(line);
            StandardAuthorizer authorizer = authorizer(given);
            List<Boolean> each = new ArrayList<>(), byType = new ArrayList<>();
            for (JsonNode one : given.get("questions")) {
                AclOperation operation = AclOperation.fromCode((byte) one.get(2).asInt());
                ResourceType type = ResourceType.fromCode((byte) one.get(3).asInt());
                String name = one.get(4).asText();
                Action action = new Action(
                    operation, new ResourcePattern(type, name, PatternType.LITERAL), 1, false, false);
                Context context = new Context(one.get(0).asText(), one.get(1).asText());
                each.add(authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED);
                if (name.equals("a")) {
                    Context here = new Context(one.get(0).asText(), "127.0.0.1");
                    byType.add(authorizer.authorizeByResourceType(here, operation, type) == AuthorizationResult.ALLOWED);
                }
            }
            System.out.println(json.writeValueAsString(Map.of("each", each, "by_type", byType)));
        }
    }

    static StandardAuthorizer authorizer(JsonNode given) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
            "super.users", "User:superman",
            "allow.everyone.if.no.acl.found", given.get("everyone").asText()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (JsonNode one : given.get("acls")) {
            acls.put(Uuid.randomUuid(), new StandardAcl(
                ResourceType.fromCode((byte) one.get(0).asInt()),
                one.get(4).asText(),
                PatternType.fromCode((byte) one.get(1).asInt()),
                one.get(5).asText(),
                one.get(6).asText(),
                AclOperation.fromCode((byte) one.get(2).asInt()),
                AclPermissionType.fromCode((byte) one.get(3).asInt())));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    record Context(String user, String host) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public KafkaPrincipal principal() {
            String[] parts = user.split(":", 2);
            return new KafkaPrincipal(parts[0], parts[1]);
        }
        public InetAddress clientAddress() {
            try {
                return InetAddress.getByName(host);
            } catch (java.net.UnknownHostException error) {
                throw new IllegalArgumentException(error);
            }
        }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }
}
