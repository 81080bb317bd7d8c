
0:612026-03-02T09:00:04.020Ze-31"acme*bad_time2Qoccurred_at: "2026-03-02" is not a time of RFC 3339, such as 2026-11-30T09:00:00Z:acmeB^{"id":"e-31","space":"acme","occurred_at":"2026-03-02","observed":{"node":"o-9","source":"s"}}J 
content-typeapplication/jsonJ
ce_ide-31