"""Numbers about a broker: counted as things happen, shown when somebody asks."""
