import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** A stock Java client at everyday work; prints "ok: what" for each thing that went as expected. */
public class EverydayWork {
    static final Duration PATIENCE = Duration.ofSeconds(20);
    static final long FIRST_MS = System.currentTimeMillis() - 3_600_000;
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String topic = "java-" + arguments[1];
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            describeCluster(admin);
            createAndDescribe(admin, topic);
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) roundTrip(topic, codec);
            acknowledgements(topic);
            largestRecord(topic);
            timestamps(topic, admin);
            configs(admin, topic);
            deleteRecords(admin, topic);
            partitionsAndRecreation(admin, topic);
            refusals(admin, topic);
            producersAndDirectories(admin, topic);
        }
        System.out.println("all done");
    }

    static void ok(String what) {
        System.out.println("ok: " + what);
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
        ok(what);
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    static KafkaProducer<String, byte[]> producer(Map<String, Object> extra) {
        Map<String, Object> settings = new HashMap<>(extra);
        settings.put("bootstrap.servers", bootstrap);
        settings.putIfAbsent("delivery.timeout.ms", 20000);
        settings.putIfAbsent("request.timeout.ms", 10000);
        return new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<String, byte[]> consumer(Map<String, Object> extra) {
        Map<String, Object> settings = new HashMap<>(extra);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", false);
        settings.putIfAbsent("auto.offset.reset", "none");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new ByteArrayDeserializer());
    }

    static void describeCluster(Admin admin) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        check(get(cluster.nodes()).size() == 1, "the cluster has one broker");
        check(get(cluster.clusterId()).length() == 22, "the cluster has an id");
        check(get(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("metadata.version"),
            "metadata.version is finalized");
        check(get(admin.describeMetadataQuorum().quorumInfo()).voters().size() == 1, "the quorum has one voter");
    }

    static void createAndDescribe(Admin admin, String topic) throws Exception {
        NewTopic wanted = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "86400000"));
        CreateTopicsResult created = admin.createTopics(List.of(wanted));
        get(created.all());
        check(get(created.numPartitions(topic)) == 3, "the answer to a creation names the partitions");
        check("86400000".equals(get(created.config(topic)).get("retention.ms").value()), "and the configs");
        TopicDescription described = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        check(described.partitions().size() == 3, "three partitions are described");
        check(described.partitions().get(0).leader() != null, "a partition has a leader");
        check(!described.topicId().equals(Uuid.ZERO_UUID), "a topic has an id");
        check(get(admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds()).size() == 1,
            "a topic is described by its id");
        check(get(admin.listTopics().names()).contains(topic), "the topic is listed");
        NewTopic defaults = new NewTopic(topic + "-defaults", Optional.empty(), Optional.empty());
        get(admin.createTopics(List.of(defaults)).all());
        ok("a topic is created with every default");
        get(admin.createTopics(List.of(new NewTopic(topic + "-dry", 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).all());
        check(!get(admin.listTopics().names()).contains(topic + "-dry"), "a dry run creates nothing");
    }

    static void roundTrip(String topic, String codec) throws Exception {
        List<RecordMetadata> sent = new ArrayList<>();
        try (KafkaProducer<String, byte[]> producer = producer(Map.of("compression.type", codec, "linger.ms", 20))) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                ProducerRecord<String, byte[]> record = new ProducerRecord<>(topic, i % 3, FIRST_MS + i,
                    "key-" + i, (codec + " value " + i).repeat(20).getBytes());
                record.headers().add("codec", codec.getBytes()).add("empty", null);
                futures.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : futures) sent.add(future.get(20, TimeUnit.SECONDS));
        }
        try (KafkaConsumer<String, byte[]> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, sent.get(0).offset());
            int seen = 0;
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (seen < 167 && System.nanoTime() < until) {
                for (ConsumerRecord<String, byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    int number = seen * 3;
                    if (!record.key().equals("key-" + number)
                        || record.timestamp() != FIRST_MS + number
                        || !new String(record.value()).equals((codec + " value " + number).repeat(20))
                        || !new String(record.headers().lastHeader("codec").value()).equals(codec)
                        || record.headers().lastHeader("empty").value() != null
                        || record.offset() != sent.get(number).offset()) {
                        throw new AssertionError("record " + number + " of " + codec + " came back as " + record);
                    }
                    seen++;
                }
            }
            check(seen == 167, "500 records compressed with " + codec + " come back as sent");
        }
    }

    static void acknowledgements(String topic) throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            try (KafkaProducer<String, byte[]> producer = producer(Map.of("acks", acks, "enable.idempotence", false))) {
                long offset = producer.send(new ProducerRecord<>(topic, 1, "k", "v".getBytes())).get().offset();
                check(acks.equals("0") ? offset == -1 : offset >= 0, "acks=" + acks + " is answered as it should be");
            }
        }
    }

    static void largestRecord(String topic) throws Exception {
        Map<String, Object> large = Map.of("max.request.size", 20_000_000, "batch.size", 0);
        try (KafkaProducer<String, byte[]> producer = producer(large)) {
            producer.send(new ProducerRecord<>(topic, 1, null, new byte[1_048_588 - 100])).get();
            ok("a batch just below max.message.bytes is taken");
            try {
                producer.send(new ProducerRecord<>(topic, 1, null, new byte[1_048_588])).get();
                throw new AssertionError("a batch above max.message.bytes was taken");
            } catch (ExecutionException refused) {
                check(refused.getCause() instanceof RecordTooLargeException, "one above it is refused as too large");
            }
        }
    }

    static void timestamps(String topic, Admin admin) throws Exception {
        try (KafkaConsumer<String, byte[]> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            Map<TopicPartition, OffsetAndTimestamp> found =
                consumer.offsetsForTimes(Map.of(partition, FIRST_MS + 300));
            check(found.get(partition).timestamp() == FIRST_MS + 300, "an offset is found by its time");
            check(found.get(partition).leaderEpoch().isPresent(), "with the epoch of its record");
            check(consumer.beginningOffsets(List.of(partition)).get(partition) == 0, "the beginning is known");
            check(consumer.endOffsets(List.of(partition)).get(partition) == 167 * 5, "and the end");
            consumer.assign(List.of(partition));
            consumer.seek(partition, 10_000_000);
            try {
                consumer.poll(Duration.ofSeconds(10));
                throw new AssertionError("an offset beyond the end was read");
            } catch (org.apache.kafka.clients.consumer.OffsetOutOfRangeException refused) {
                ok("an offset beyond the end is refused");
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        ListOffsetsResult.ListOffsetsResultInfo latest =
            get(admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition));
        check(latest.timestamp() == FIRST_MS + 498, "the largest timestamp is found");
    }

    static void configs(Admin admin, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("max.message.bytes", "2000000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all());
        Config config = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
        check(config.get("max.message.bytes").value().equals("2000000"), "a changed config is described");
        check(config.get("cleanup.policy").value().equals("delete,compact"), "a list config is appended to");
        check(config.get("segment.bytes").isDefault(), "a config nobody set shows its default");
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("max.message.bytes", ""), AlterConfigOp.OpType.DELETE),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT)))).all());
        try {
            get(admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.millis", "1"), AlterConfigOp.OpType.SET)))).all());
            throw new AssertionError("an unknown config was taken");
        } catch (ExecutionException refused) {
            check(refused.getCause() instanceof InvalidConfigurationException, "an unknown config is refused");
        }
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "100");
        Config described = get(admin.describeConfigs(List.of(broker)).all()).get(broker);
        check(described.get("log.dirs") != null && described.entries().size() > 60, "a broker's configs are described");
    }

    static void deleteRecords(Admin admin, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        long low = get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(100)))
            .lowWatermarks().get(partition)).lowWatermark();
        check(low == 100, "records are deleted up to an offset");
        check(get(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition)).offset() == 100,
            "and the beginning moves there");
    }

    static void partitionsAndRecreation(Admin admin, String topic) throws Exception {
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
        check(get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size() == 5,
            "partitions are added");
        String again = topic + "-again";
        get(admin.createTopics(List.of(new NewTopic(again, 1, (short) 1))).all());
        Uuid first = get(admin.describeTopics(List.of(again)).allTopicNames()).get(again).topicId();
        try (KafkaProducer<String, byte[]> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(again, "k", "old".getBytes())).get();
            get(admin.deleteTopics(List.of(again)).all());
            get(admin.createTopics(List.of(new NewTopic(again, 1, (short) 1))).all());
            Uuid second = get(admin.describeTopics(List.of(again)).allTopicNames()).get(again).topicId();
            check(!first.equals(second), "a topic created again has another id");
            long offset = -1;
            for (int attempt = 0; attempt < 20 && offset != 0; attempt++) {
                try {
                    offset = producer.send(new ProducerRecord<>(again, "k", "new".getBytes())).get().offset();
                } catch (ExecutionException notYet) {
                    if (!(notYet.getCause() instanceof RetriableException)) throw notYet;
                }
            }
            check(offset == 0, "and starts at offset 0");
        }
    }

    static void refusals(Admin admin, String topic) throws Exception {
        expect(TopicExistsException.class, () -> get(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all()));
        expect(InvalidReplicationFactorException.class,
            () -> get(admin.createTopics(List.of(new NewTopic("three", 1, (short) 3))).all()));
        expect(InvalidTopicException.class, () -> get(admin.createTopics(List.of(new NewTopic("no/slash", 1, (short) 1))).all()));
        expect(InvalidPartitionsException.class, () -> get(admin.createTopics(List.of(new NewTopic("none", 0, (short) 1))).all()));
        expect(UnknownTopicOrPartitionException.class, () -> get(admin.deleteTopics(List.of("nowhere")).all()));
        expect(UnknownTopicOrPartitionException.class, () -> get(admin.describeTopics(List.of("nowhere")).allTopicNames()));
    }

    static void producersAndDirectories(Admin admin, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 1);
        check(!get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().isEmpty(),
            "idempotent producers are described");
        Map<String, LogDirDescription> directories = get(admin.describeLogDirs(List.of(100)).allDescriptions()).get(100);
        LogDirDescription only = directories.values().iterator().next();
        check(only.replicaInfos().get(partition).size() > 1_000_000, "log directories are described");
        check(only.totalBytes().isPresent() && only.usableBytes().isPresent(), "with the space they have");
    }

    interface Attempt { void run() throws Exception; }

    static void expect(Class<? extends Throwable> refusal, Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (ExecutionException refused) {
            check(refusal.isInstance(refused.getCause()), refusal.getSimpleName() + " where it is due");
            return;
        }
        throw new AssertionError(refusal.getSimpleName() + " did not come");
    }
}
