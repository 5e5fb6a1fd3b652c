"""ACL bits: a client's allowed operations, a bit per AclOperation (KIP-430).

Without an authorizer, every operation that applies to the resource is allowed.
"""

from __future__ import annotations

_READ = 1 << 3
_WRITE = 1 << 4
_CREATE = 1 << 5
_DELETE = 1 << 6
_ALTER = 1 << 7
_DESCRIBE = 1 << 8
_CLUSTER_ACTION = 1 << 9
_DESCRIBE_CONFIGS = 1 << 10
_ALTER_CONFIGS = 1 << 11
_IDEMPOTENT_WRITE = 1 << 12

_CONFIGS = _DESCRIBE_CONFIGS | _ALTER_CONFIGS

GROUP = _READ | _DELETE | _DESCRIBE | _CONFIGS
TOPIC = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _CONFIGS
CLUSTER = _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _CONFIGS | _IDEMPOTENT_WRITE

NOT_ASKED_FOR = -(2**31)
"""Operations that were not requested, in a response."""
