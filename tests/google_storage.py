"""Google Cloud Storage, as far as an archive uses it: its dialect of S3, translated for a server that speaks S3.

Each object has a generation, a number that grows with each writing. A writer may demand a generation, 0 for an object
that must not exist. Source: Google's documentation, XML API, HTTP headers and preconditions
(https://docs.cloud.google.com/storage/docs/xml-api/reference-headers).
"""

from __future__ import annotations

from itertools import count
from threading import Lock
from urllib.parse import unquote

from tests.object_storage import HOST, SECRET, Answer, Ask, Headers

GENERATION = "x-goog-generation"
DEMANDED = "x-goog-if-generation-match"
SIGNED = "AWS4-HMAC-SHA256 Credential=me/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=unchecked"
PREFIXES = ("x-goog-meta-", "x-amz-meta-")  # of the names of an object's own attributes: Google's, and those of S3


def build_google_environment(port: int) -> Headers:
    """Return the variables by which a client finds the translator at a port, which accepts any token."""
    return {"GOOGLE_BASE_URL": f"http://{HOST}:{port}", "GOOGLE_BEARER_TOKEN": SECRET}


def translate_to_s3(ask: Ask) -> Ask:
    """Return a function that takes Google's requests and asks a server that speaks S3, one request at a time."""
    generations, next_generation, lock = dict[str, int](), count(1), Lock()

    def ask_in_s3(method: str, path: str, headers: Headers, body: bytes) -> Answer:
        name, mark, query = path.partition("?")
        name = unquote(name)  # the server does not understand an encoded "/"
        with lock:
            generation_before = generations.get(name, 0)
            if int(headers.get(DEMANDED, generation_before)) != generation_before:
                return Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
            answer = ask(
                method, name + mark + query, rename_headers(headers, *PREFIXES) | {"authorization": SIGNED}, body
            )
            if method == "PUT" and answer.status == 200:
                generations[name] = next(next_generation)
            if method == "DELETE":
                generations.pop(name, None)
            generation = {GENERATION: str(generations[name])} if name in generations else {}
        return answer._replace(headers=rename_headers(answer.headers, *reversed(PREFIXES)) | generation)

    return ask_in_s3


def rename_headers(headers: Headers, before: str, after: str) -> Headers:
    """Change the prefix of the attributes' names in headers, and drop Google's condition."""
    return {name.replace(before, after, 1): value for name, value in headers.items() if name != DEMANDED}
