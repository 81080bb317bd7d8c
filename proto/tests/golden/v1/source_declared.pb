
e-01acmeaccounts"run-7*322026-03-02T09:15:00+01:00¢…
inbox:billing@supplier.exampleinboxSupplier's billing address"
countryDE"

first_seen
2025-11-04(Ðð32supplier8€´‰Bdana