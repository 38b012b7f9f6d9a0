-- Health of a BookieCluster for Argo CD: resource.customizations.health.bookie.dev_BookieCluster in ConfigMap argocd-cm
-- (docs/OPERATOR.md, GitOps). Only conditions decide, never a phase or a sentence. Tests run it: test_gitops.py.
local function condition(kind)
  for _, one in ipairs((obj.status or {}).conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return { status = "Unknown", reason = "NotSeen", message = "the operator has not said so yet" }
end

local function answer(status, one)
  return { status = status, message = one.reason .. ": " .. (one.message or "") }
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "it is being deleted; its claims stay" }
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not seen this generation yet" }
end
local stalled = condition("Stalled")
if stalled.status == "True" then
  return answer("Degraded", stalled)
end
local lifecycle = (obj.spec or {}).lifecycle or {}
if lifecycle.paused == true then
  return { status = "Suspended", message = "spec.lifecycle.paused is true" }
end
local hibernated = condition("Hibernated")
if hibernated.status == "True" then
  return answer("Suspended", hibernated)
end
local reconciling = condition("Reconciling")
if reconciling.status == "True" then
  return answer("Progressing", reconciling)
end
local risk = condition("DataAtRisk")
if risk.status == "True" then
  return answer("Degraded", risk)
end
local ready = condition("Ready")
if ready.status == "True" then
  return answer("Healthy", ready)
end
return answer("Progressing", ready)
