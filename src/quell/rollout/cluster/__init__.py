"""Many machines: episodes and contributions on Ray actors, each running the CPU engine.

    session.py   start a local cluster (loopback only) or connect to one
    worker.py    what runs on an actor: episodes of a shard, then its contributions
    fleet.py     keep workers alive, hand them work, re-issue what is lost
    engine.py    the engine: cut an iteration into shards, gather scalars, add up sums

Trajectories never leave the worker that made them. Out go theta and what `prepare` found; back come scalars and sums of
size d, merged on the worker along the tree of `quell.reduce`. Nothing that is random, summed or decided depends on who
does what, so a run has the same bits as on one machine, whatever dies, hangs or joins on the way.
"""
