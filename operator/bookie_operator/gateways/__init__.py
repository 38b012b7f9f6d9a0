"""The two outside worlds of the operator: the Kubernetes API and the admin service of bookies. No decisions here."""
