import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** A stock Java client at work in transactions; prints "ok: what" for each thing as expected. */
public class TransactionalWork {
    static String bootstrap;
    static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = "java-" + arguments[1];
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            get(admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all());
            commitAndAbort();
            fencing(admin);
            offsets(admin);
            describing(admin);
        }
        System.out.println("all done");
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
        System.out.println("ok: " + what);
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", transactionalId, "max.block.ms", 20000),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static List<String> read(String isolation) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Map.of(
                "bootstrap.servers", bootstrap, "isolation.level", isolation),
                new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            List<String> values = new ArrayList<>();
            while (all.stream().anyMatch(each -> consumer.position(each) < ends.get(each)))
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            Collections.sort(values);
            return values;
        }
    }

    static void commitAndAbort() throws Exception {
        try (KafkaProducer<String, String> producer = producer(topic + "-1")) {
            for (int round = 0; round < 20; round++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "k", "a" + round));
                producer.send(new ProducerRecord<>(topic, 1, "k", "b" + round));
                if (round % 2 == 0) producer.commitTransaction();
                else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.commitTransaction();
        }
        List<String> seen = read("read_committed");
        check(seen.size() == 20 && seen.contains("a0") && !seen.contains("a1"), "committed records alone are seen");
        check(read("read_uncommitted").size() == 40, "whoever reads everything sees all");
    }

    static void fencing(Admin admin) throws Exception {
        try (KafkaProducer<String, String> zombie = producer(topic + "-2")) {
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, "k", "zombie")).get();
            try (KafkaProducer<String, String> heir = producer(topic + "-2")) {
                heir.beginTransaction();
                heir.send(new ProducerRecord<>(topic, 0, "k", "heir"));
                heir.commitTransaction();
            }
            boolean fenced = false;
            try {
                zombie.send(new ProducerRecord<>(topic, 1, "k", "zombie")).get();
                zombie.commitTransaction();
            } catch (ProducerFencedException | InvalidProducerEpochException | ExecutionException expected) {
                fenced = true;
            }
            check(fenced, "a zombie is fenced");
        }
        List<String> seen = read("read_committed");
        check(seen.contains("heir") && !seen.contains("zombie"), "and its records are not seen");
        try (KafkaProducer<String, String> told = producer(topic + "-3")) {
            told.beginTransaction();
            told.send(new ProducerRecord<>(topic, 0, "k", "told")).get();
            get(admin.fenceProducers(List.of(topic + "-3")).all());
            boolean fenced = false;
            try {
                told.commitTransaction();
            } catch (KafkaException expected) {
                fenced = true;
            }
            check(fenced, "an administrator fences a producer");
        }
    }

    static void offsets(Admin admin) throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(topic + "-4")) {
            for (boolean commits : new boolean[] {true, false}) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(place, new OffsetAndMetadata(commits ? 3 : 5)), new ConsumerGroupMetadata(topic + "-group"));
                if (commits) producer.commitTransaction();
                else producer.abortTransaction();
            }
        }
        long offset = get(admin.listConsumerGroupOffsets(topic + "-group").partitionsToOffsetAndMetadata()).get(place).offset();
        check(offset == 3, "offsets count when their transaction commits");
    }

    static void describing(Admin admin) throws Exception {
        try (KafkaProducer<String, String> producer = producer(topic + "-5")) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 1, "k", "open")).get();
            Collection<TransactionListing> open = get(admin.listTransactions(
                new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING))).all());
            check(open.stream().anyMatch(each -> each.transactionalId().equals(topic + "-5")), "an open transaction is listed");
            TransactionDescription known = get(admin.describeTransactions(List.of(topic + "-5")).description(topic + "-5"));
            check(known.state() == TransactionState.ONGOING, "and described");
            check(known.topicPartitions().equals(Set.of(new TopicPartition(topic, 1))), "with its partitions");
            producer.commitTransaction();
        }
    }
}
