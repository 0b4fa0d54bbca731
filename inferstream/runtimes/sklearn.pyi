from inferstream.plugins.frameworks.sklearn import *
