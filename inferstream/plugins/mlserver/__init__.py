"""MLServer compatibility: replacements for its modules and commands."""

from inferstream.ext import Extension

extension = Extension(
    "mlserver",
    requires=["cloudevents", "frameworks", "tools"],
    dialects={"runtimes": "inferstream.plugins.mlserver.security_route:Runtimes"},
    rpcs={"runtimes": "inferstream.plugins.mlserver.security_rpcs:RuntimeSecurityService"},
    protocol_extensions={"runtime_security": "inferstream.plugins.mlserver.security_route:has_always"},
    commands={"alias": "inferstream.plugins.mlserver.alias:alias"},
    loggers=("mlserver",),
    modules={"mlserver": "inferstream.plugins.mlserver.names"},
    runtimes={
        "mlserver_onnx.OnnxModel": "inferstream.plugins.mlserver.onnx:MLServerOnnxModel",
        "mlserver_onnx.onnx.OnnxModel": "inferstream.plugins.mlserver.onnx:MLServerOnnxModel",
    },
)
