"""Groups of the classic protocol: members join, and their leader assigns.

One rebalance through the files: ana, the leader, and ben are in a Stable group, and
carl joins.

1. carl's JoinGroup has no member id. `join._hand_out_id` makes carl a pending member
   and answers MEMBER_ID_REQUIRED with the id (KIP-394).
2. carl's JoinGroup has that id. `join._add_member` adds carl to the group;
   `rebalance.prepare` takes the group to PreparingRebalance and arms the timer
   ("join", group) for the longest rebalance timeout. carl's join waits.
3. Heartbeats of ana and ben are answered REBALANCE_IN_PROGRESS from now on, so they
   join again. `join._rejoin` lets their joins wait, too.
4. The last join comes, or the timer fires: `rebalance.complete_join` ends the join
   phase. It removes members that are late (`removal.remove`), ensures that the leader
   has joined (`ClassicGroup.elect_leader`), starts the generation, chooses its protocol
   (`ClassicGroup.next_generation`: CompletingRebalance), and answers all joins. The
   leader's answer lists the members. The timer ("sync", group) is armed.
5. SyncGroups of ben and carl wait in `sync.sync`. ana's brings the assignments:
   `sync.store_assignments` appends the group's record. When the log has it
   (`appends`), `sync.assigned` makes the group Stable and answers all syncs. A
   SyncGroup that comes later is answered at once.
6. A member whose SyncGroup does not come before the timer fires is removed
   (`rebalance.sync_expired`), and the next rebalance starts.

A rebalance also starts when members leave or their sessions expire (`leave`), when a
static member is replaced (`static`), or when a loaded group has too many members
(`restore`). In an Empty group it starts with initial windows in place of step 3
(`rebalance`, KIP-134).

A member's requests wait in it (`waiting`), its session is a deadline (`sessions`).
`powers` has the commands of tests, `state` the table of states, and `room` declares all
of this to the coordinator.
"""
