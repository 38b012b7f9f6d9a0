// etcd as its module ships it; a module of our own, because etcd's cannot be installed by version.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
