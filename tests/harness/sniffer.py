"""Counts packets on a network interface: `python tests/harness/sniffer.py INTERFACE MARKER`; needs root.

Prints `ready`, and at SIGTERM one line of JSON: the number of packets, their size in bytes, and the number of
packets that contain the marker.
"""

from __future__ import annotations

import json
import signal
import socket
import sys

ALL = 3  # ETH_P_ALL
BUFFER_BYTES = 2**27
SO_RCVBUFFORCE = 33


def main() -> None:
    interface, marker = sys.argv[1], sys.argv[2].encode()
    packets = size = marked = 0
    over = False

    def stop(*_: object) -> None:
        nonlocal over
        over = True

    signal.signal(signal.SIGTERM, stop)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)) as line:
        line.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        line.bind((interface, 0))
        line.settimeout(0.2)
        print("ready", flush=True)
        while True:
            try:
                packet = line.recv(2**17)
            except TimeoutError:
                if over:  # All buffered packets have been read.
                    break
                continue
            packets += 1
            size += len(packet)
            marked += marker in packet
    print(json.dumps({"packets": packets, "bytes": size, "marked": marked}), flush=True)


if __name__ == "__main__":
    main()
