// Consume, transform, produce, exactly once, with kafkajs: node transform.mjs BOOTSTRAP INPUT OUTPUT MEMBER
// Copies every record of INPUT to OUTPUT in transactions, and goes on until it is killed.
//
// kafkajs commits offsets in a transaction without saying which member it is, and in which generation, so that
// no coordinator can refuse one that has lost its partitions (KIP-447); and it may be told an offset that a
// transaction is about to replace. Therefore every input partition has a transactional id of its own, whichever
// member has the partition. After a change of leaders kafkajs may hand out the same records twice; what is
// before our place is passed over.
//
// Invariant: where a partition is committed is read only after its transactional id was initialised. By then
// all earlier transactions are over and whoever wrote them is fenced.
import { Kafka, logLevel } from "kafkajs";

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const AT_ONCE = 20;
const groupId = "js-transformers";
const [bootstrap, input, output, clientId] = process.argv.slice(2);
const kafka = new Kafka({
  clientId,
  brokers: bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 10 },
});
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 6000,
  heartbeatInterval: 500,
  readUncommitted: false,
  maxWaitTimeInMs: 200,
  retry: { retries: 2 }, // it looks for a new coordinator only when it has given up
});
const admin = kafka.admin();
const claims = new Map(); // partition to the producer that writes for it, and the place it has come to

async function persistently(work) {
  while (true) {
    try {
      return await work();
    } catch (problem) {
      console.error(`${problem}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }
}

async function initialised(partition) {
  const producer = kafka.producer({
    transactionalId: `${groupId}-${partition}`,
    transactionTimeout: 10_000,
    idempotent: true,
    maxInFlightRequests: 1,
  });
  try {
    await producer.connect();
    const empty = await producer.transaction(); // the first one initialises the transactional id
    await empty.abort();
    return producer;
  } catch (problem) {
    await producer.disconnect();
    throw problem;
  }
}

async function committed(partition) {
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [input] });
  return Math.max(0, Number(partitions.find((each) => each.partition === partition).offset));
}

async function release(partition) {
  const claim = claims.get(partition);
  claims.delete(partition);
  await claim?.producer.disconnect();
}

// Become the only one that writes for a partition, and go to where it is committed.
async function claim(partition) {
  await release(partition);
  const producer = await persistently(() => initialised(partition));
  const place = await persistently(() => committed(partition));
  claims.set(partition, { producer, place });
  consumer.seek({ topic: input, partition, offset: `${place}` });
}

async function copy({ producer }, partition, messages, end) {
  const transaction = await producer.transaction();
  const copies = messages.map(({ key, value }) => ({ partition, key, value }));
  await transaction.send({ topic: output, messages: copies });
  const topics = [{ topic: input, partitions: [{ partition, offset: `${end}` }] }];
  await transaction.sendOffsets({ consumerGroupId: groupId, topics });
  await transaction.commit();
}

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  const { partition } = batch;
  if (!claims.has(partition)) return claim(partition);
  while (isRunning() && !isStale()) {
    const own = claims.get(partition);
    const messages = batch.messages.filter(({ offset }) => Number(offset) >= own.place).slice(0, AT_ONCE);
    if (messages.length === 0) return;
    const last = messages.at(-1).offset;
    try {
      await copy(own, partition, messages, Number(last) + 1);
    } catch (problem) {
      console.error(`${problem}`);
      return claim(partition);
    }
    own.place = Number(last) + 1;
    resolveOffset(last);
    await heartbeat();
  }
}

await persistently(() => admin.connect());
await persistently(() => consumer.connect());
await consumer.subscribe({ topic: input, fromBeginning: true });
consumer.on(consumer.events.GROUP_JOIN, () => Promise.all([...claims.keys()].map(release)));
await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch });
