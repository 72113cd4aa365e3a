// Events as nodes announce them: when, of which kind.
export const KINDS = [
  ["leader", /^(LeaderElected|PartitionBecameLeader)$/, "leaders"],
  ["isr", /^InSyncReplicasDecided$/, "in-sync replicas"],
  ["broker", /^(Broker|Node|LogDirectory)/, "brokers"],
  ["controller", /^(Controller|StrangeController)/, "controllers"],
  ["log", /^(LogTruncated|LogRecovered|Segment|LogCleaned|CleaningFailed|FetcherStuck)/, "logs"],
  ["topic", /^(Topic|InternalTopic)/, "topics"],
  ["detail", /./, "details"],
];

export const kindOf = (event) => KINDS.find(([, pattern]) => pattern.test(event.event))[0];
export const idOf = (event) => `${event.node}-${event.seq}`;
export const momentOf = (event) => Date.parse(event.at);
