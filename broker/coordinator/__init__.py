"""The group coordinator as a pure state machine: events in, effects out."""
