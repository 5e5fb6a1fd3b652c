"""Tools on the data directory of a broker: inspect, import, verify."""
