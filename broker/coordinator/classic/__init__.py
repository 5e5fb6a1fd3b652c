"""Groups of the classic protocol: members join, and their leader assigns."""
