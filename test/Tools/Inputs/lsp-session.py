"""Opens a text in a language server and prints what the server finds wrong. usage: lsp-session.py SERVER TEXT"""
import json
import subprocess
import sys


def message(method, params, number=None):
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        body["id"] = number
    text = json.dumps(body)
    return f"Content-Length: {len(text)}\r\n\r\n{text}"


document = {"uri": "test:///file.mlir", "languageId": "mlir", "version": 1, "text": sys.argv[2]}
session = (message("initialize", {"processId": 0, "rootUri": None, "capabilities": {}, "trace": "off"}, 0)
           + message("textDocument/didOpen", {"textDocument": document})
           + message("shutdown", None, 1) + message("exit", None))
print(subprocess.run([sys.argv[1]], input=session, capture_output=True, text=True, timeout=60).stdout)
