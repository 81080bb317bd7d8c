
e-1acmeªS
n-1s-1"
hello