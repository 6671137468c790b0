"""Serves our server class and token guard with the tools, resources and prompts that the conformance suite calls.

Usage: python -m proof.mcp_fixtures PORT PROJECT. The suite cannot send a token: it is added to each request.
"""

import base64
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.server.mcpserver.resolve import ElicitationResult, Sample
from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    CreateMessageResult,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from reflectloop.mcp import http
from reflectloop.mcp.server import make_server

_PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 24).decode()
_SOUND = base64.b64encode(b"RIFF" + b"\0" * 40).decode()
_TOKEN = "t" * 40


class Person(BaseModel):
    """The form of `test_elicitation`."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Yes(BaseModel):
    """A form with one answer."""

    ok: bool


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _image() -> ImageContent:
    return ImageContent(type="image", data=_PIXEL, mime_type="image/png")


def _resource(uri: str, text: str, kind: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, text=text, mime_type=kind))


def _result(*blocks: ContentBlock) -> CallToolResult:
    return CallToolResult(content=list(blocks))


def add_content_tools(server: MCPServer[Any]) -> None:
    """Add the tools that return each kind of content."""

    def test_simple_text() -> CallToolResult:
        """Return text."""
        return _result(_text("This is a simple text response for testing."))

    def test_image_content() -> CallToolResult:
        """Return an image."""
        return _result(_image())

    def test_audio_content() -> CallToolResult:
        """Return a sound."""
        return _result(AudioContent(type="audio", data=_SOUND, mime_type="audio/wav"))

    def test_embedded_resource() -> CallToolResult:
        """Return a resource."""
        return _result(_resource("test://embedded-resource", "This is an embedded resource content."))

    def test_multiple_content_types() -> CallToolResult:
        """Return several kinds of content."""
        document = _resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return _result(_text("Multiple content types test:"), _image(), document)

    for tool in (test_simple_text, test_image_content, test_audio_content, test_embedded_resource):
        server.add_tool(tool)
    server.add_tool(test_multiple_content_types)


def add_tools_that_fail_or_report(server: MCPServer[Any]) -> None:
    """Add a tool that fails and one that reports progress."""

    def test_error_handling() -> CallToolResult:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    async def test_tool_with_progress(ctx: Context[Any, Any]) -> CallToolResult:
        """Report progress."""
        for part in (0, 50, 100):
            await ctx.report_progress(part, 100)
            await anyio.sleep(0.05)
        return _result(_text("done"))

    server.add_tool(test_error_handling)
    server.add_tool(test_tool_with_progress)


def add_asking_tools(server: MCPServer[Any]) -> None:
    """Add the tools that ask by resolver, as ours do."""

    def ask_person(message: str) -> Elicit[Person]:
        return Elicit(message, Person)

    def test_elicitation(
        message: str, person: Annotated[ElicitationResult[Person], Resolve(ask_person)]
    ) -> CallToolResult:
        """Ask the user."""
        return _result(_text(f"User response to {message}: {person}"))

    def ask_yes() -> Elicit[Yes]:
        return Elicit("Go on?", Yes)

    def test_input_required_result_tampered_state(
        answer: Annotated[ElicitationResult[Yes], Resolve(ask_yes)],
    ) -> CallToolResult:
        """Ask the user, with a state that must come back unchanged."""
        return _result(_text(str(answer)))

    def sample() -> Sample:
        return Sample([SamplingMessage(role="user", content=_text("Say hello"))], max_tokens=10)

    def test_missing_capability(answer: Annotated[CreateMessageResult, Resolve(sample)]) -> CallToolResult:
        """Need sampling."""
        return _result(_text(str(answer)))

    server.add_tool(test_elicitation)
    server.add_tool(test_input_required_result_tampered_state)
    server.add_tool(test_missing_capability)


def add_resources_and_prompts(server: MCPServer[Any]) -> None:
    """Add what the suite reads."""

    @server.resource("test://static-text", mime_type="text/plain", description="A text.")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png", description="An image.")
    def static_binary() -> bytes:
        return base64.b64decode(_PIXEL)

    @server.resource("test://template/{id}/data", mime_type="application/json", description="A template.")
    def template(id: str) -> str:  # noqa: A002 - the suite's name
        return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'

    @server.prompt(description="A simple prompt.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's name
        content = _resource(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(content), UserMessage("Please process the embedded resource above.")]

    @server.prompt(description="A prompt with an image.")
    def test_prompt_with_image() -> list[Message]:
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]


def main(port: int, project: Path) -> None:
    server = make_server(project, local=False)
    add_content_tools(server)
    add_tools_that_fail_or_report(server)
    add_asking_tools(server)
    add_resources_and_prompts(server)
    app = http.make_app(server, _TOKEN)

    async def relay(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + _TOKEN.encode())]
        await app(scope, receive, send)

    uvicorn.Server(uvicorn.Config(relay, host=http.HOST, port=port, log_level="error")).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
