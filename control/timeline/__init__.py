"""The timeline: what each member of each group did, and why, as a page for browsers.

One HTML document that loads nothing: of a file of events (`kohort timeline`), or live
from a broker's HTTP port.
"""
