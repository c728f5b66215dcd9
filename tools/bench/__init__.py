"""A real cluster without machines: etcd, kube-apiserver, kube-controller-manager and KWOK on loopback."""
