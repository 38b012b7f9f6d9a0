"""The certificates of the admin ports: an authority per cluster, the certificates that it issues, and when each is
renewed.

Pure: the time comes as an argument, random bytes through a function. Must never log, and never leave an authority's key
anywhere but in what `authority.dump` returns.

    authority (key in the operator's namespace only)      one per BookieCluster, by uid
      ├─ server certificate, EKU serverAuth               of its bookies, renewed in the cluster's namespace
      └─ client certificate, EKU clientAuth, URI SAN      of one operator process, in memory, hours long
"""
