// Everyday work of a JavaScript application with kafkajs: a group whose members come and go,
// commits that are found again, and transactions of which only the committed ones are read.
import { Kafka, logLevel } from "kafkajs";

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const RECORDS = 600;
const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "everyday",
  brokers: bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 20 },
});

async function waitFor(condition, what) {
  const until = Date.now() + 40_000;
  while (!condition()) {
    if (Date.now() > until) throw new Error(`${what} did not happen in time`);
    await new Promise((resume) => setTimeout(resume, 10));
  }
}

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = Array.from({ length: RECORDS }, (_, number) => ({ key: `${number}`, value: `${number}` }));
  await producer.send({ topic, acks: -1, messages });
  await producer.disconnect();
}

async function member(groupId, seen) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      seen.add(message.value.toString());
      await consumer.commitOffsets([{ topic, partition, offset: `${Number(message.offset) + 1}` }]);
    },
  });
  return consumer;
}

async function groupWork() {
  const groupId = "js-group";
  const seen = new Set();
  const first = await member(groupId, seen);
  await waitFor(() => seen.size > 20, "reading");
  const second = await member(groupId, seen);
  await waitFor(() => seen.size === RECORDS, "reading everything");
  await first.disconnect();
  await second.disconnect();
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic);
  const [committed] = await admin.fetchOffsets({ groupId, topics: [topic] });
  for (const { partition, high } of ends) {
    const found = committed.partitions.find((each) => each.partition === partition);
    if (high !== "0" && found.offset !== high) throw new Error(`partition ${partition} is committed to ${found.offset} of ${high}`);
  }
  await admin.disconnect();
}

async function transactions() {
  const inTransaction = `${topic}-transactions`;
  const producer = kafka.producer({ transactionalId: "from-js", idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [number, ending] of ["commit", "abort", "commit"].entries()) {
    const transaction = await producer.transaction();
    const messages = Array.from({ length: 10 }, () => ({ value: `${number}` }));
    await transaction.send({ topic: inTransaction, messages });
    await transaction[ending]();
  }
  await producer.disconnect();
  const counts = { 0: 0, 1: 0, 2: 0 };
  const consumer = kafka.consumer({ groupId: "js-transactions", readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic: inTransaction, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => { counts[message.value.toString()] += 1; } });
  await waitFor(() => counts[0] + counts[2] === 20, "reading what was committed");
  await consumer.disconnect();
  if (counts[1] !== 0) throw new Error("what was aborted was read");
}

await produce();
await groupWork();
await transactions();
console.log("well");
