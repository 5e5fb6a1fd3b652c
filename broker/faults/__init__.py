"""Faults: rules that make a broker err, delay, disconnect and fall silent.

1. A `Rule` has a selector, a trigger and an effect (`rule`).
2. The `Faults` of a broker hold the rules, count their strikes, and publish each as an
   event (`plan`).
3. While there is a rule, or requests are recorded (`requests`), the broker's
   connections are of the class `FaultyConnection` (`connection`). It puts the plan
   between a request and its handler, and between the response and the socket. Without
   rules, this package costs nothing: connections do not know it.
4. `answers` makes error responses, for every API.
"""
