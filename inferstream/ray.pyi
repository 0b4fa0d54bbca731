from inferstream.plugins.ray import *
