"""Two gRPC servers, and a client that finds them by xDS.

Prints the ports of the servers, then for each line of its input who answered a call.
"""

import sys
from concurrent import futures

import grpc

METHOD = "/demo.Name/Say"


def start(name):
    say = grpc.unary_unary_rpc_method_handler(lambda request, context: name.encode())
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Name", {"Say": say}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


servers = [start("one"), start("other")]
print(*(port for _, port in servers), flush=True)
channel = grpc.insecure_channel("xds:///demo")
call = channel.unary_unary(METHOD)
for _ in sys.stdin:
    try:
        print(call(b"", wait_for_ready=True, timeout=30).decode(), flush=True)
    except grpc.RpcError as error:
        print(f"{error.code()}: {error.details()}".replace("\n", " "), flush=True)
