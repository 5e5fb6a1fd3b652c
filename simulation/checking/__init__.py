"""Checks a simulated run from outside, after each event; shrinks one that fails.

1. `coordinators`, with `consumer_groups`: invariants of a coordinator's state, its
   timers, its waiting requests and its log. The tests of the coordinator use them, too.
2. `drivers` watches the coordinators of a simulated cluster: it checks these invariants
   behind each event, and that requests are answered once and in time.
3. `pods` compares members: no partition has two owners, no record is left out.
4. `run` plays a scenario with all of them, and checks that its groups settle.
5. `shrink` reduces a scenario that fails to the smallest one that still does.
"""
