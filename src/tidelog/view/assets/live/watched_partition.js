// One partition under the microscope: its replicas, and what they did, as nodes tell it.
//
// Nodes tell a few times a second what they did. It is shown a little later, so that what several nodes
// tell can be put in the order in which it happened.
const MOST_HAPPENINGS = 200;
const BEHIND_MS = 600;

export class WatchedPartition {
  constructor() {
    this.replicas = {}; // by node, as it told last
    this.epochs = {}; // by node: [[epoch, first offset]]
    this.happened = []; // what is shown, the newest last
    this.parked = new Set(); // end offsets for which acknowledgements wait
    this.untold = []; // what nodes told and is not shown yet
    this.ahead = -Infinity; // of the nodes' clock before this one
    this.now = 0; // the moment that is shown, by the nodes' clock
  }

  hearReplica(node, replica, at) {
    if (at) this.untold.push({ at_ms: at, node, n: Infinity, told: replica });
    else this.show({ node, told: replica });
    this.note(at);
  }

  hearMicroscope(node, epochs, happened, at) {
    if (epochs) this.untold.push({ at_ms: happened[0]?.at_ms ?? at ?? 0, node, n: -1, epochs });
    for (const each of happened) this.untold.push({ ...each, node, id: `${node}-${each.n}` });
    this.note(at);
  }

  note(at) {
    if (at) this.ahead = Math.max(this.ahead, at - performance.now());
  }

  /** Show what happened up to a moment shortly before now, on all nodes, in the order in which it happened. */
  play() {
    this.now = performance.now() + this.ahead - BEHIND_MS;
    const due = this.untold.filter((each) => each.at_ms <= this.now);
    this.untold = this.untold.filter((each) => each.at_ms > this.now);
    due.sort((a, b) => a.at_ms - b.at_ms || a.node - b.node || a.n - b.n);
    for (const each of due) this.show(each);
    if (this.happened.length > MOST_HAPPENINGS) this.happened.splice(0, this.happened.length - MOST_HAPPENINGS);
  }

  show(each) {
    const { node } = each;
    if (each.told) {
      if (each.told.removed) delete this.replicas[node];
      else this.replicas[node] = { ...each.told, followers: { ...each.told.followers } };
      if (each.told.role === "leader" && each.told.parked === 0) this.parked.clear();
      return;
    }
    if (each.epochs) {
      this.epochs[node] = each.epochs;
      return;
    }
    this.happened.push(each);
    const replica = this.replicas[node];
    if (each.what === "parked") this.parked.add(each.end_offset);
    if (each.what === "acknowledged") this.parked.delete(each.end_offset);
    if (!replica) return;
    if (each.what === "appended" || each.what === "truncated") replica.log_end_offset = each.log_end_offset;
    if (each.what === "high_watermark") replica.high_watermark = each.after;
    if (each.what === "fetch_received" && each.replica >= 0) replica.followers[each.replica] = each.fetch_offset;
  }
}
