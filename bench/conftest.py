import pytest


def pytest_addoption(parser):
    parser.addoption("--size", choices=["small", "large"], default="small", help="size of the matrices")


@pytest.fixture(scope="session")
def size(request):
    return request.config.getoption("--size")
