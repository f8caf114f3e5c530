"""Without a network and without data: in seconds either the photographs or one clear line."""
import time

DEAD_PROXY = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
NO_EXCEPTIONS = {"no_proxy": "", "NO_PROXY": ""}


def resolve(run, data):
    start = time.time()
    code = f"from pertnb.data.images import resolve_data; print('use', resolve_data({data!r}))"
    return run("python", "-c", code, **DEAD_PROXY, **NO_EXCEPTIONS), time.time() - start


def test_auto_falls_back(run):
    done, seconds = resolve(run, "auto")
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("data: the built-in photographs, because cifar10 is not in") and last == "use photos"
    assert seconds < 60


def test_asked_for_by_name_stops(run):
    done, _ = resolve(run, "cifar10")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("FileNotFoundError: cifar10 is not in")
