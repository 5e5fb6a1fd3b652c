"""Views of the stream of events that the broker keeps up itself: a file, a topic."""
