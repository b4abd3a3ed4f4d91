"""Uses the tools with the protocol's own Python client, over HTTP and over standard input and output.

Arguments: the URL of the server, the token, the program of the daemon, and the daemon's base URL.
"""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

url, token, program, base = sys.argv[1:]


async def use(streams):
    async with ClientSession(*streams[:2]) as session:
        await session.initialize()
        tools = await session.list_tools()
        assert any(tool.name == "bash" for tool in tools.tools), tools
        called = await session.call_tool("bash", {"command": "echo from python; exit 3"})
        assert not called.is_error, called
        result = called.structured_content
        assert (result["stdout"], result["exitCode"]) == ("from python\n", 3), result
        failed = await session.call_tool("read", {"path": "nope"})
        assert failed.is_error and "nope" in failed.content[0].text, failed


async def main():
    headers = {"authorization": f"Bearer {token}", "x-sandbox-session": "python"}
    async with create_mcp_http_client(headers=headers) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            await use(streams)
    environment = {**os.environ, "SANDBOXD_URL": base, "SANDBOXD_ADMIN_TOKEN": token}
    async with stdio_client(StdioServerParameters(command=program, args=["mcp"], env=environment)) as streams:
        await use(streams)
    print("as published")


asyncio.run(main())
