"""An index over the network: the page and REST API of `gentus serve`, and the MCP tools of `gentus mcp`.

In: HTTP requests or calls of MCP tools. Out: searches, alignments, unions and changes of one index. It may
import every layer before `app`. The modules in reading order:

- `settings`, `errors`, `schema`: limits of a server; failures with a status; requests and responses.
- `middleware`, `metrics`: checks before every request, and metrics for Prometheus.
- `fair_queue`: threads that clients share fairly. `uploads`: files of clients.
- `index_handle`, `overview`: the open index; its list, map and tree.
- `service`: index, uploads and limits together. `server`: the same with queues and metrics, for HTTP.
- `query_input`, `batch_search`, `table_preview`, `client_union`: the operations, for HTTP and MCP alike.
- `*_routes`, `wrong_address`, `app`, `run`: the HTTP server. `page/`: the page. `mcp_tools`: the MCP server.
"""

from gentus.app.serve.settings import Settings

__all__ = ["Settings"]
