"""Metrics for Prometheus: requests, their durations, queues, and the size of the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "gentus_requests", "Requests answered.", ["route", "method", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "gentus_request_seconds",
            "From the first byte of a request to the last of its response.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def gauges(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        """Add gauges that are read at every scrape."""
        for name, (words, value) in gauges.items():
            Gauge(f"gentus_{name}", words, registry=self.registry).set_function(value)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request under its route; unknown paths share one label, so that labels stay few."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "DELETE", "HEAD") else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
