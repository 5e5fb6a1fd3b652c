"""A transactional producer's side of the protocol: pure but for `driver`."""
