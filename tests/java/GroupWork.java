// The Java consumer in a group: members come and go, commit, and find what others committed.

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class GroupWork {
    static final int PARTITIONS = 4;
    static final int RECORDS = 200;
    static final long WITHIN_MS = 60_000;

    static String bootstrap, topic, protocol;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        protocol = arguments[2];
        produce(0);
        var first = member();
        var read = new HashSet<String>();
        readUntil(List.of(first), read, RECORDS);
        first.commitSync();

        var second = member();
        var both = List.of(first, second);
        pollUntilShared(both, PARTITIONS / 2);
        produce(RECORDS);
        readUntil(both, read, 2 * RECORDS);
        for (var member : both) member.commitSync();
        second.close();
        pollUntilShared(List.of(first), PARTITIONS);
        first.close();

        try (var third = member()) {
            pollUntilShared(List.of(third), PARTITIONS);
            Map<TopicPartition, OffsetAndMetadata> committed = third.committed(third.assignment());
            long total = committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum();
            check(total == 2 * RECORDS, "committed " + committed);
            check(third.poll(Duration.ofMillis(500)).isEmpty(), "something was read again");
        }
        System.out.println("all done");
    }

    static KafkaConsumer<String, String> member() {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (protocol.equals("classic")) settings.put("heartbeat.interval.ms", "200");
        var text = new StringDeserializer();
        var consumer = new KafkaConsumer<>(settings, text, text);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static void produce(int from) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            for (int number = from; number < from + RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, number % PARTITIONS, null, "" + number));
            }
        }
    }

    static void readUntil(List<KafkaConsumer<String, String>> members, Set<String> read, int count) {
        long until = System.currentTimeMillis() + WITHIN_MS;
        while (read.size() < count) {
            check(System.currentTimeMillis() < until, "read only " + read.size());
            for (var member : members) {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(100))) {
                    check(read.add(record.value()), record.value() + " was read twice");
                }
            }
        }
    }

    static void pollUntilShared(List<KafkaConsumer<String, String>> members, int each) {
        long until = System.currentTimeMillis() + WITHIN_MS;
        while (members.stream().anyMatch(member -> member.assignment().size() != each)) {
            check(System.currentTimeMillis() < until, "partitions are not shared");
            for (var member : members) {
                check(member.poll(Duration.ofMillis(100)).isEmpty(), "an unexpected record");
            }
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }
}
