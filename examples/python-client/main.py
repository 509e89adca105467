"""python3 main.py [http://127.0.0.1:7878]; TOOLGATE_TOKEN is a key of the service, or the token of its file"""

import json
import os
import sys

from toolgate import run

STOCK = {"tea": 3, "coffee": 0}


def count_of(item):
    if item not in STOCK:
        raise KeyError(f"no {item} here")
    return STOCK[item]


report = run(
    sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7878",
    """
    const counts: Record<string, number> = {};
    for (const item of context.items) {
      counts[item] = await countOf(item).catch((error: Error) => { console.error(error.message); return -1 });
    }
    console.log("counted", context.items.length, "items");
    return { counts, total: await addNumbers(...Object.values(counts)) };
    """,
    key=os.environ.get("TOOLGATE_TOKEN"),
    context={"items": ["tea", "coffee", "cocoa"]},
    functions={
        "countOf": ({"params": {"item": "string"}, "description": "How many of an item are in stock."}, count_of),
        "addNumbers": ({"params": [{"name": "numbers", "schema": "number", "rest": True}]}, lambda *n: sum(n)),
    },
    on_log=lambda line, stream: print(f"{stream}: {line}"),
)

print(json.dumps(report["result"] if report["ok"] else {"code": report["code"], "error": report["error"]}))
sys.exit(0 if report["ok"] else 1)
