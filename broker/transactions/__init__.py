"""The transaction coordinator: producer ids, epochs and the states of transactions."""
