"""DescribeCluster: the cluster's id, its nodes, and the controller."""

from __future__ import annotations

from kohort.broker.handlers import acl_bits
from kohort.broker.request import Request
from kohort.protocol.apis.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kohort.protocol.errors import ErrorCode

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: Request) -> None:
    """Describes the brokers; requests about controllers are refused."""
    message: DescribeClusterRequest = request.message
    cluster = request.node.cluster
    wanted = message.endpoint_type
    if wanted != _BROKERS:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        why = f"there is no endpoint type {wanted}"
        if wanted == _CONTROLLERS:
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            why = "this is an endpoint of brokers, not of controllers"
        request.finish(DescribeClusterResponse(0, error, why))
        return
    request.finish(
        DescribeClusterResponse(
            0,
            0,
            None,
            _BROKERS,
            cluster.id,
            cluster.controller_id,
            [
                DescribeClusterBroker(
                    node.id,
                    *node.addresses[request.peer.listener],
                    None,
                    not node.is_running,
                )
                for node in cluster.nodes.values()
                if node.is_running or message.include_fenced_brokers
            ],
            acl_bits.CLUSTER
            if message.include_cluster_authorized_operations
            else acl_bits.NOT_ASKED_FOR,
        )
    )
