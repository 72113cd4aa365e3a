import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a share group, a kind that is not served: it must be told so, and not be left waiting. */
public final class ShareGroup {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "group.id", "sharers");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(arguments[1]));
            for (int polls = 0; polls < 30; polls++) {
                consumer.poll(Duration.ofSeconds(1)); // what a poll was told, the next one throws
            }
            System.out.println("nobody objected");
        } catch (UnsupportedVersionException told) {
            System.out.println("told");
        }
    }
}
