// What Kafka's own parser makes of sasl.jaas.config: one text per line in (as JSON), one JSON object out.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

public class JavaJaas {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json.writeValueAsString(read(json.readValue(line, String.class))));
        }
    }

    private static Map<String, Object> read(String text) {
        try {
            JaasContext found = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)));
            AppConfigurationEntry entry = found.configurationEntries().get(0);
            return Map.of("module", entry.getLoginModuleName(), "options", new TreeMap<>(entry.getOptions()));
        } catch (RuntimeException refused) {
            return Map.of("refused", refused.getClass().getSimpleName());
        }
    }
}
