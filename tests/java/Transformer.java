import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** Copies every record of one topic to another in transactions, until it is killed. */
public class Transformer {
    static String bootstrap;
    static String transactionalId;

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        transactionalId = arguments[3];
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "transformers",
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "session.timeout.ms", 6000,
            "max.poll.records", 20,
            "reconnect.backoff.max.ms", 100L),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(arguments[1]));
        KafkaProducer<byte[], byte[]> producer = newProducer();
        while (true) {
            try {
                ConsumerRecords<byte[], byte[]> read = consumer.poll(Duration.ofSeconds(1));
                if (read.isEmpty()) continue;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : read) {
                    producer.send(new ProducerRecord<>(arguments[2], record.partition(), record.key(), record.value()));
                    places.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(places, consumer.groupMetadata());
                commit(producer);
            } catch (KafkaException problem) {
                System.err.println(problem);
                producer = recover(producer, consumer, problem);
            }
        }
    }

    static void commit(KafkaProducer<byte[], byte[]> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException slow) {
                System.err.println(slow);
            }
        }
    }

    static KafkaProducer<byte[], byte[]> newProducer() {
        while (true) {
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", transactionalId,
                "transaction.timeout.ms", 10000,
                "reconnect.backoff.max.ms", 100L),
                new ByteArraySerializer(), new ByteArraySerializer());
            try {
                producer.initTransactions();
                return producer;
            } catch (KafkaException problem) {
                System.err.println(problem);
                producer.close(Duration.ZERO);
            }
        }
    }

    static KafkaProducer<byte[], byte[]> recover(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer, KafkaException problem) {
        try {
            producer.abortTransaction();
        } catch (KafkaException | IllegalStateException hopeless) {
            System.err.println(hopeless);
            producer.close(Duration.ZERO);
            producer = newProducer();
        }
        while (true) {
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                for (TopicPartition partition : consumer.assignment()) {
                    OffsetAndMetadata place = committed.get(partition);
                    consumer.seek(partition, place == null ? 0 : place.offset());
                }
                return producer;
            } catch (KafkaException again) {
                System.err.println(again);
            }
        }
    }
}
