"""The world of a simulation: brokers, pods, and the network and the time between them.

One thread runs everything. What the processes execute is kohort itself: the brokers are
a `kohort.broker.cluster.cluster.Cluster` with its connections, a pod is a member with
the connections of `kohort.client`. Three things take the place of the machine:

1. `scheduler`: a heap of callbacks, by virtual time. A `Process` is an event loop on
   it, which can be paused, and killed.
2. `network`: transports that carry the bytes of the two, with a latency.
3. `records`: partitions whose records are numbers. They arrive at a rate, and consumers
   read them without a Fetch. All other requests go over the network.

All randomness comes from the seed, a stream for each actor: a change of one pod leaves
the numbers of the others as they are.
"""
