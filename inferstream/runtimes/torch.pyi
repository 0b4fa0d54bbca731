from inferstream.plugins.frameworks.torch import *
