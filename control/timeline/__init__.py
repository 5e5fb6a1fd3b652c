"""The timeline: members of groups and their rebalances over time, as a web page.

One HTML document that loads nothing: of a file of events (`kohort timeline`), or live
from a broker's HTTP port.
"""
