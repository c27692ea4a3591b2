"""Start a Kubernetes of one node to try things with: ``python -m demo.kubernetes``."""

from __future__ import annotations

import argparse
import sys

from demo.java_servers import serve
from demo.kubernetes.node import Node


def main(arguments: list[str] | None = None) -> int:
    """Start one, print how it is reached, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.kubernetes", description=__doc__)
    return serve(parser, lambda folder, _: Node(folder), arguments)


if __name__ == "__main__":
    sys.exit(main())
